#!/usr/bin/env bash
# Runs once on every new HyperPod node, before it joins the cluster: moves what containerd and kubelet write onto the
# node's NVMe, so that images and a model of some hundred gigabytes do not fill the root volume.
#
# Needs nothing but what the node's image has: a download that fails here is a node that never joins.
set -Eeuo pipefail

root=${DPD_ROOT:-}
nvme=/opt/dlami/nvme
mount_wait_seconds=${DPD_MOUNT_WAIT_SECONDS:-300}
pause_seconds=${DPD_PAUSE_SECONDS:-5}
log=$root/var/log/provision/provisioning.log
units=$root/etc/systemd/system

mkdir -p "$(dirname "$log")"

say() {
  printf '%s on_create: %s\n' "$(date -u +%FT%TZ)" "$*" | tee -a "$log"
}

# the agent uploads the log every minute; a script that exits at once leaves an empty stream behind
give_up() {
  trap - ERR
  say "error: $*"
  sync
  sleep "${DPD_LOG_UPLOAD_SECONDS:-70}"
  exit 1
}
trap 'give_up "line $LINENO: $BASH_COMMAND failed"' ERR

wait_for_nvme() {
  local waited=0
  until mountpoint -q "$root$nvme"; do
    ((waited < mount_wait_seconds)) || give_up "$nvme is not mounted after $waited seconds: $(lsblk --noheadings --output NAME,SIZE,MOUNTPOINT 2>&1 | tr '\n' ';')"
    say "waiting for $nvme"
    sleep "$pause_seconds"
    waited=$((waited + pause_seconds))
  done
  say "$nvme is mounted"
}

# the directory that containerd really uses; images differ
containerd_root() {
  local configured
  configured=$(containerd config dump 2>/dev/null | sed -n 's/^root *= *"\(.*\)"$/\1/p' | head -n 1) || true
  echo "${configured:-/var/lib/containerd}"
}

# a bind mount, as EKS's own images do it: nothing in containerd's or kubelet's configuration changes, so a new
# image with another configuration keeps working
move_to_nvme() {
  local target=$1 source=$nvme/dpd$1 unit
  if mountpoint -q "$root$target"; then
    say "$target is a mount already"
    return 0
  fi
  mkdir -p "$root$source" "$root$target" "$units"
  cp -a "$root$target/." "$root$source/"
  unit=$(systemd-escape --path --suffix=mount "$target")
  cat >"$units/$unit" <<UNIT
[Unit]
Description=$target on NVMe
RequiresMountsFor=$nvme
Before=containerd.service kubelet.service

[Mount]
What=$source
Where=$target
Type=none
Options=bind

[Install]
WantedBy=local-fs.target
RequiredBy=containerd.service kubelet.service
UNIT
  systemctl daemon-reload
  systemctl enable --now "$unit"
  mountpoint -q "$root$target" || give_up "$target was not mounted from $source"
  say "$target is on $nvme"
}

was_running=()
stop_services() {
  local service
  for service in kubelet containerd; do
    if systemctl is-active --quiet "$service"; then
      systemctl stop "$service"
      was_running=("$service" "${was_running[@]}")
    fi
  done
}

start_services() {
  local service
  for service in "${was_running[@]}"; do
    systemctl start "$service"
  done
}

say "start"
wait_for_nvme
containerd_directory=$(containerd_root)
stop_services
move_to_nvme "$containerd_directory"
move_to_nvme /var/lib/kubelet
start_services
say "done"
