#!/usr/bin/env bash
# Installs or removes the HyperPod dependencies chart, or packs everything it needs for a closed network.
#
#   dependencies.sh install          chart and tools from DPD_SOURCE, then `helm upgrade --install`
#   dependencies.sh uninstall        `helm uninstall`; a cluster that is gone counts as done
#   dependencies.sh archive FILE     write the archive that DPD_SOURCE=s3 expects (run it where the internet is)
#
# The last line with `dpd-error:` is the reason that CloudFormation shows.
set -Eeuo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
retry_seconds=${DPD_RETRY_SECONDS:-10}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'printf "dpd-error: line %s: %s failed\n" "$LINENO" "$BASH_COMMAND" >&2' ERR
export KUBECONFIG="$work/kubeconfig"
export PATH="$work/bin:$PATH"
mkdir -p "$work/bin" "$work/downloads"

fail() {
  printf 'dpd-error: %s\n' "$*" >&2
  exit 1
}

# attempt TIMES WHAT COMMAND...: run until it succeeds; fail with the end of its own output
attempt() {
  local times=$1 what=$2 try output="$work/output"
  shift 2
  for ((try = 1; try <= times; try++)); do
    if "$@" >"$output" 2>&1; then
      cat "$output"
      return 0
    fi
    cat "$output" >&2
    if ((try < times)); then
      echo "$what failed (attempt $try of $times)" >&2
      sleep "$retry_seconds"
    fi
  done
  fail "$what failed after $times attempts: $(tail -n 5 "$output" | tr '\n' ' ')"
}

verify() {
  local file=$1 expected=$2 actual
  actual=$(sha256sum "$file" | cut -d ' ' -f 1)
  [[ "$actual" == "$expected" ]] || fail "$(basename "$file") has sha256 $actual, expected $expected: refused"
}

download() {
  local name=$1 url=$2 sha256=$3
  attempt 3 "downloading $name" curl --fail --silent --show-error --location --max-time 300 --output "$work/downloads/$name" "$url"
  verify "$work/downloads/$name" "$sha256"
}

clone() {
  git init --quiet "$work/source"
  attempt 3 "fetching $DPD_REPOSITORY" git -C "$work/source" fetch --quiet --depth 1 "$DPD_REPOSITORY" "$DPD_COMMIT"
  git -C "$work/source" checkout --quiet --detach FETCH_HEAD
  local actual
  actual=$(git -C "$work/source" rev-parse HEAD)
  [[ "$actual" == "$DPD_COMMIT" ]] || fail "$DPD_REPOSITORY gave commit $actual, expected $DPD_COMMIT: refused"
  cp -R "$work/source/$DPD_CHART_PATH" "$work/downloads/chart"
}

unpack_archive() {
  attempt 3 "copying $DPD_ARCHIVE_URI" aws s3 cp --only-show-errors "$DPD_ARCHIVE_URI" "$work/archive.tar.gz"
  verify "$work/archive.tar.gz" "$DPD_ARCHIVE_SHA256"
  tar -xzf "$work/archive.tar.gz" -C "$work/downloads" --no-same-owner
  verify "$work/downloads/helm.tar.gz" "$DPD_HELM_SHA256"
  verify "$work/downloads/kubectl" "$DPD_KUBECTL_SHA256"
  verify "$work/downloads/nvidia-plugin.tgz" "$DPD_NVIDIA_PLUGIN_SHA256"
  verify "$work/downloads/efa-plugin.tgz" "$DPD_EFA_PLUGIN_SHA256"
}

download_tools() {
  download helm.tar.gz "$DPD_HELM_URL" "$DPD_HELM_SHA256"
  download kubectl "$DPD_KUBECTL_URL" "$DPD_KUBECTL_SHA256"
}

download_everything() {
  clone
  download_tools
  download nvidia-plugin.tgz "$DPD_NVIDIA_PLUGIN_URL" "$DPD_NVIDIA_PLUGIN_SHA256"
  download efa-plugin.tgz "$DPD_EFA_PLUGIN_URL" "$DPD_EFA_PLUGIN_SHA256"
}

install_tools() {
  tar -xzf "$work/downloads/helm.tar.gz" -C "$work" linux-amd64/helm
  install -m 0755 "$work/linux-amd64/helm" "$work/bin/helm"
  install -m 0755 "$work/downloads/kubectl" "$work/bin/kubectl"
}

assemble_chart() {
  local chart="$work/downloads/chart" before after packed
  # the repository carries an old package of the health agent, and helm prefers it to the folder beside it
  for packed in "$chart"/charts/*.tgz; do
    if [[ -e "$packed" ]]; then rm "$packed"; fi
  done
  cp "$work/downloads/nvidia-plugin.tgz" "$work/downloads/efa-plugin.tgz" "$chart/charts/"
  # helm wants every dependency that Chart.yaml names, even one that is switched off
  before=$(grep -c '^  - name: ' "$chart/Chart.yaml")
  awk '/^  - name: /{skip = ($3 == "cert-manager")} !skip' "$chart/Chart.yaml" >"$work/Chart.yaml"
  after=$(grep -c '^  - name: ' "$work/Chart.yaml")
  ((after == before - 1)) || fail "Chart.yaml names $before dependencies, $after without cert-manager: the chart has changed its form"
  mv "$work/Chart.yaml" "$chart/Chart.yaml"
}

connect() {
  attempt 3 "writing the kubeconfig" aws eks update-kubeconfig --region "$DPD_REGION" --name "$DPD_CLUSTER" --kubeconfig "$KUBECONFIG"
  # a fresh access entry takes a while to reach the API server
  attempt "${DPD_ACCESS_ATTEMPTS:-30}" "reaching the API server of $DPD_CLUSTER" kubectl auth can-i create clusterrolebindings.rbac.authorization.k8s.io
}

# a build that was stopped half-way leaves the release locked
unlock_release() {
  local pending
  pending=$(helm list --namespace "$DPD_NAMESPACE" --filter "^$DPD_RELEASE\$" --pending --short)
  [[ -z "$pending" ]] && return 0
  echo "release $DPD_RELEASE is locked by an unfinished operation; rolling it back" >&2
  helm rollback "$DPD_RELEASE" --namespace "$DPD_NAMESPACE" && return 0
  attempt 1 "removing the unfinished release" helm uninstall "$DPD_RELEASE" --namespace "$DPD_NAMESPACE" --wait
}

upgrade() {
  # no --wait: its DaemonSets have no nodes yet
  attempt 3 "helm upgrade" helm upgrade "$DPD_RELEASE" "$work/downloads/chart" --install \
    --namespace "$DPD_NAMESPACE" --values "$here/values.yaml" --history-max 5 \
    --set-string "health-monitoring-agent.region=$DPD_REGION" \
    --set-string "health-monitoring-agent.hmaimage=$DPD_HEALTH_AGENT_IMAGE" \
    --set-string "aws-efa-k8s-device-plugin.image.repository=$DPD_EFA_PLUGIN_REPOSITORY"
}

verify_installation() {
  local image
  image=$(kubectl get daemonset health-monitoring-agent --namespace aws-hyperpod --output 'jsonpath={.spec.template.spec.containers[0].image}') ||
    fail "the health-monitoring agent is not in namespace aws-hyperpod after the installation"
  [[ "$image" == "$DPD_HEALTH_AGENT_IMAGE" ]] ||
    fail "the health-monitoring agent runs image $image, expected $DPD_HEALTH_AGENT_IMAGE"
}

get_everything() {
  case "$DPD_SOURCE" in
    git) download_everything ;;
    s3) unpack_archive ;;
    *) fail "DPD_SOURCE is $DPD_SOURCE, expected git or s3" ;;
  esac
}

install_chart() {
  get_everything
  install_tools
  assemble_chart
  connect
  unlock_release
  upgrade
  verify_installation
}

cluster_exists() {
  local output
  output=$(aws eks describe-cluster --region "$DPD_REGION" --name "$DPD_CLUSTER" 2>&1) && return 0
  [[ "$output" == *ResourceNotFoundException* ]] && return 1
  fail "asking for cluster $DPD_CLUSTER failed: $output"
}

uninstall_chart() {
  if ! cluster_exists; then
    echo "cluster $DPD_CLUSTER is gone; nothing to uninstall"
    return 0
  fi
  if [[ "$DPD_SOURCE" == s3 ]]; then unpack_archive; else download_tools; fi
  install_tools
  connect
  attempt 3 "helm uninstall" helm uninstall "$DPD_RELEASE" --namespace "$DPD_NAMESPACE" --ignore-not-found
}

pack_archive() {
  local file=${1:-}
  [[ -n "$file" ]] || fail "archive needs the name of the file to write"
  download_everything
  tar -czf "$file" -C "$work/downloads" chart helm.tar.gz kubectl nvidia-plugin.tgz efa-plugin.tgz
  sha256sum "$file"
}

case "${1:-}" in
  install) install_chart ;;
  uninstall) uninstall_chart ;;
  archive) pack_archive "${2:-}" ;;
  *) fail "unknown action '${1:-}': expected install, uninstall or archive FILE" ;;
esac
