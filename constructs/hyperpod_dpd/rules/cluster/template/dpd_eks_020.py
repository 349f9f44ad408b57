"""DPD-EKS-020: Kubernetes secrets are encrypted with a key of the account."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, items, properties, resources


@template_rule(
    "DPD-EKS-020",
    severity=Severity.ERROR,
    title="Kubernetes secrets are encrypted with a KMS key",
    sources=("checkov CKV_AWS_58", "cfn-guard eks_cluster_encryption_rule"),
)
def secrets_are_encrypted(template: Template) -> Iterator[Problem]:
    """Tokens for model repositories and clients' keys lie in secrets; the key's policy decides who decrypts."""
    for logical_id, cluster in resources(template, "AWS::EKS::Cluster"):
        configured = items(properties(cluster).get("EncryptionConfig"))
        if not any(
            "secrets" in items(entry.get("Resources")) and entry.get("Provider") for entry in configured
        ):
            yield Problem(
                path=at(logical_id, "Properties.EncryptionConfig"),
                says="Kubernetes secrets are not encrypted with a key of the account",
                given="no `EncryptionConfig` for `secrets`",
                fix="add `EncryptionConfig` with a KMS key and `Resources: [secrets]`",
            )
