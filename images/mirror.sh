#!/bin/bash
# Copies public images into the account's registry by digest, so that a closed network pulls from there only.
#
#   MIRROR_REGISTRY  registry that takes the copies
#   MIRROR_IMAGES    images by digest, separated by spaces; a copy keeps path and digest of its original
#
# Prints "original copy" for each.
set -euo pipefail

registry="${MIRROR_REGISTRY:?}"
aws ecr get-login-password | docker login --username AWS --password-stdin "$registry" >&2
for image in ${MIRROR_IMAGES:?}; do
    case "$image" in
    */*@sha256:*) ;;
    *)
        echo "\`$image\` is not an image of a named registry by digest. help: write registry/path@sha256:…" >&2
        exit 1
        ;;
    esac
    digest="${image##*@}"
    path="${image#*/}"
    path="${path%@*}"
    path="mirror/${path%%:*}"
    aws ecr describe-repositories --repository-names "$path" >/dev/null 2>&1 ||
        aws ecr create-repository --repository-name "$path" --image-tag-mutability IMMUTABLE \
            --encryption-configuration encryptionType=KMS >/dev/null
    # a whole index is copied, so that the digest stays the same; a copy that is there is not made again
    aws ecr describe-images --repository-name "$path" --image-ids "imageDigest=$digest" >/dev/null 2>&1 ||
        docker buildx imagetools create --tag "$registry/$path:${digest#sha256:}" "$image" >&2
    echo "$image $registry/$path@$digest"
done
