#!/bin/bash
# Copies public images and charts into the account's registry, so that a closed network pulls from there only.
#
#   MIRROR_REGISTRY  registry that takes the copies
#   MIRROR_IMAGES    images, separated by spaces, each with its registry: by digest, or by a tag. A copy lies below
#                    mirror/ under the registry and path of its original and keeps its digest. Repositories are
#                    immutable: what a tag was when it was copied, it stays.
#   MIRROR_CHARTS    charts, separated by spaces, each as url=sha256 of the packaged chart; a copy lies below
#                    mirror/charts/ (optional; takes HELM_URL and HELM_SHA256)
#
# Prints "original copy" for each. The last line with `dpd-error:` is the reason that CloudFormation shows.
set -Eeuo pipefail
trap 'echo "dpd-error: line $LINENO: copying ${now:-the images} failed" >&2' ERR

registry="${MIRROR_REGISTRY:?}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "dpd-error: $*" >&2
    exit 1
}

. images/repository.sh

has() {
    aws ecr describe-images --repository-name "$1" --image-ids "$2" >/dev/null 2>&1
}

password() {
    aws ecr get-login-password
}

copy_image() {
    local image=$1 name path digest tag
    case "$image" in
    *.*/*@sha256:*)
        digest="${image##*@}"
        name="${image%@*}"
        path="mirror/${name%:*}"
        repository "$path"
        # a whole index is copied, so that the digest stays the same; a copy that is there is not made again
        has "$path" "imageDigest=$digest" ||
            docker buildx imagetools create --tag "$registry/$path:${digest#sha256:}" "$image" >&2
        echo "$image $registry/$path@$digest"
        ;;
    *.*/*:*)
        tag="${image##*:}"
        path="mirror/${image%:*}"
        repository "$path"
        has "$path" "imageTag=$tag" || docker buildx imagetools create --tag "$registry/$path:$tag" "$image" >&2
        echo "$image $registry/$path:$tag"
        ;;
    *) fail "\`$image\` is not an image of a named registry with a tag or digest. help: write registry/path:tag" ;;
    esac
}

install_helm() {
    curl --fail --silent --show-error --location --output "$work/helm.tar.gz" "${HELM_URL:?}"
    verify "$work/helm.tar.gz" "${HELM_SHA256:?}"
    tar -xzf "$work/helm.tar.gz" -C "$work" linux-amd64/helm
    password | "$work/linux-amd64/helm" registry login --username AWS --password-stdin "$registry" >&2
}

verify() {
    local actual
    actual=$(sha256sum "$1" | cut -d ' ' -f 1)
    [ "$actual" = "$2" ] || fail "$(basename "$1") has sha256 $actual, expected $2: refused"
}

copy_chart() {
    local url=${1%=*} sha256=${1##*=} file name version
    file="$work/${url##*/}"
    name="${url##*/}"
    name="${name%.tgz}"
    version="${name##*-}"
    name="${name%-*}"
    repository "mirror/charts/$name"
    if ! has "mirror/charts/$name" "imageTag=$version"; then
        curl --fail --silent --show-error --location --output "$file" "$url"
        verify "$file" "$sha256"
        "$work/linux-amd64/helm" push "$file" "oci://$registry/mirror/charts" >&2
    fi
    echo "$url oci://$registry/mirror/charts/$name:$version"
}

password | docker login --username AWS --password-stdin "$registry" >&2
for image in ${MIRROR_IMAGES:-}; do
    now="$image"
    copy_image "$image"
done
if [ -n "${MIRROR_CHARTS:-}" ]; then
    now="helm"
    install_helm
    for chart in $MIRROR_CHARTS; do
        now="$chart"
        copy_chart "$chart"
    done
fi
