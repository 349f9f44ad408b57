#!/bin/bash
# Builds one image, pushes it and prints its digest; run by CodeBuild in the account, from the root of the sources.
#
#   IMAGE       worker, router or jobs: a folder below images/
#   REPOSITORY  registry and name of the ECR repository
#   TAG         digest of the sources; an image that has it is not built again
#   BASE_IMAGE  base image by digest, where a mirror replaces the Dockerfile's own (optional)
set -euo pipefail

dockerfile="images/${IMAGE:?}/Dockerfile"
if [ ! -f "$dockerfile" ]; then
    echo "there is no $dockerfile. help: set IMAGE to worker, router or jobs" >&2
    exit 1
fi
repository="${REPOSITORY:?}"
registry="${repository%%/*}"
name="${repository#*/}"

digest() {
    aws ecr describe-images --repository-name "$name" --image-ids "imageTag=${TAG:?}" \
        --query 'imageDetails[0].imageDigest' --output text
}

if ! digest 2>/dev/null; then
    arguments=()
    if [ -n "${BASE_IMAGE:-}" ]; then
        case "$BASE_IMAGE" in
        *@sha256:*) ;;
        *)
            echo "BASE_IMAGE is \`$BASE_IMAGE\`, not an image by digest" >&2
            exit 1
            ;;
        esac
        base=$(awk -F'[ =]' '$1 == "ARG" && $2 ~ /_IMAGE$/ { print $2; exit }' "$dockerfile")
        arguments=(--build-arg "$base=$BASE_IMAGE")
    fi
    aws ecr get-login-password | docker login --username AWS --password-stdin "$registry" >&2
    docker buildx build --platform linux/amd64 --provenance=false --file "$dockerfile" "${arguments[@]}" \
        --tag "$repository:$TAG" --push . >&2
    digest
fi
