#!/bin/bash
# Installs libfabric, rdma-core and NCCL's plugin from AWS's EFA installer; the kernel module is the node's.
set -euo pipefail

# EC2 user guide, "Get started with EFA": fingerprint of the key that signs the installer
fingerprint=4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC
archive="aws-efa-installer-${EFA_INSTALLER_VERSION:?}.tar.gz"

work=$(mktemp --directory)
export GNUPGHOME="$work/gnupg"
mkdir --mode=700 "$GNUPGHOME"
cd "$work"
for file in "$archive" "$archive.sig" aws-efa-installer.key; do
    curl --fail --silent --show-error --location --retry 5 --remote-name "${EFA_INSTALLER_BASE:?}/$file"
done

gpg --batch --quiet --import aws-efa-installer.key
signed_by=$(gpg --batch --status-fd 1 --verify "$archive.sig" "$archive" 2>/dev/null |
    awk '$2 == "VALIDSIG" { print $NF }')
if [ "$signed_by" != "$fingerprint" ]; then
    echo "$archive is signed by \`${signed_by:-nobody}\`, wanted \`$fingerprint\`. help: do not use this archive" >&2
    exit 1
fi

tar --extract --gzip --file "$archive"
cd aws-efa-installer
apt-get update
./efa_installer.sh --yes --skip-kmod --skip-limit-conf --no-verify
ldconfig
cd /
rm -rf "$work" /var/lib/apt/lists/*
