#!/bin/bash
# Builds one image, pushes it and prints its digest; run by CodeBuild in the account, from the root of the sources.
#
#   IMAGE       worker, router, proof or benchmark: a folder below images/
#   REPOSITORY  registry and name of the ECR repository, which is made when it is not there
#   TAG         digest of the sources; an image that has it is not built again, whoever built it
#   BASE_IMAGE  base image by digest, where a mirror replaces the Dockerfile's own (optional)
#
# The last line with `dpd-error:` is the reason that CloudFormation shows.
set -euo pipefail

fail() {
    echo "dpd-error: $*" >&2
    exit 1
}

. images/repository.sh

dockerfile="images/${IMAGE:?}/Dockerfile"
[ -f "$dockerfile" ] || fail "there is no $dockerfile. help: set IMAGE to worker, router, proof or benchmark"
repository="${REPOSITORY:?}"
registry="${repository%%/*}"
name="${repository#*/}"

log=$(mktemp)
trap 'rm -f "$log"' EXIT

digest() {
    aws ecr describe-images --repository-name "$name" --image-ids "imageTag=${TAG:?}" \
        --query 'imageDetails[0].imageDigest' --output text
}

if ! digest 2>/dev/null; then
    arguments=()
    if [ -n "${BASE_IMAGE:-}" ]; then
        case "$BASE_IMAGE" in
        *@sha256:*) ;;
        *) fail "BASE_IMAGE is \`$BASE_IMAGE\`, not an image by digest" ;;
        esac
        base=$(awk -F'[ =]' '$1 == "ARG" && $2 ~ /_IMAGE$/ { print $2; exit }' "$dockerfile")
        arguments=(--build-arg "$base=$BASE_IMAGE")
    fi
    repository "$name"
    aws ecr get-login-password | docker login --username AWS --password-stdin "$registry" >&2 ||
        fail "logging in to $registry failed"
    docker buildx build --platform linux/amd64 --provenance=false --file "$dockerfile" "${arguments[@]}" \
        --tag "$repository:$TAG" --push . 2>&1 | tee "$log" >&2 ||
        # a tag cannot be pushed twice: another deployment may have built the same sources meanwhile
        digest >/dev/null 2>&1 ||
        fail "building $dockerfile failed: $(tail -n 5 "$log" | tr '\n' ' ')"
    digest || fail "$repository has no tag $TAG after the build"
fi
