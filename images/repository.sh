#!/bin/bash
# Makes the ECR repository that is named, unless it is there; sourced by build.sh and mirror.sh.
#
# No stack owns these repositories: a stack that is rolled back cannot delete one with images, would leave it behind under
# a name that nobody looks for again, and its images would be built or copied once more.

repository() {
    local made
    made=$(aws ecr describe-repositories --repository-names "$1" 2>&1 >/dev/null) ||
        made=$(aws ecr create-repository --repository-name "$1" --image-tag-mutability IMMUTABLE \
            --image-scanning-configuration scanOnPush=true --encryption-configuration encryptionType=KMS 2>&1 >/dev/null) ||
        # another deployment's build may have been the first
        aws ecr describe-repositories --repository-names "$1" >/dev/null 2>&1 ||
        fail "making the repository $1 failed: ${made##*$'\n'}. help: make it beforehand, with immutable tags"
}
