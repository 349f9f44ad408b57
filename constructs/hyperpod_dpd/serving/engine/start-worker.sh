#!/bin/sh
# Starts the engine whose command line is "$@". A decoder that restarts at the same address is lost to every
# prefiller that knew it, because they remember it by address and port: so each start takes the next range of ports,
# and the last argument, the served model name, gets an alias by which the router learns the number of the start.
set -eu

if [ -n "${PROMETHEUS_MULTIPROC_DIR:-}" ]; then
    # files of the process before would be added to the counters of this one
    rm -rf "$PROMETHEUS_MULTIPROC_DIR"
    mkdir -p "$PROMETHEUS_MULTIPROC_DIR"
fi

if [ -z "${DPD_PORT_EPOCHS:-}" ]; then
    exec "$@"
fi

counter="${DPD_STATE_DIRECTORY:?}/starts"
start=0
if [ -e "$counter" ]; then
    start=$(cat "$counter")
fi
case "$start" in
'' | *[!0-9]*)
    echo "dpd: $counter holds \`$start\`, not a number of starts. help: delete the pod" >&2
    exit 1
    ;;
esac
# counted before the engine starts: a start that fails has used its ports, too
echo "$((start + 1))" >"$counter.new"
mv "$counter.new" "$counter"

ports() { # first port, number of ports
    list=$1
    port=$1
    while [ "$port" -lt "$(($1 + $2 - 1))" ]; do
        port=$((port + 1))
        list="$list, $port"
    done
    echo "[$list]"
}

offset=$((start % DPD_PORT_EPOCHS * DPD_TENSOR_PARALLEL))
{
    cat "${DPD_LMCACHE_TEMPLATE:?}"
    echo "pd_peer_init_port: $(ports "$((DPD_INIT_PORT_BASE + offset))" "$DPD_TENSOR_PARALLEL")"
    echo "pd_peer_alloc_port: $(ports "$((DPD_ALLOC_PORT_BASE + offset))" "$DPD_TENSOR_PARALLEL")"
} >"${LMCACHE_CONFIG_FILE:?}.new"
mv "$LMCACHE_CONFIG_FILE.new" "$LMCACHE_CONFIG_FILE"

exec "$@" "dpd-epoch-$start"
