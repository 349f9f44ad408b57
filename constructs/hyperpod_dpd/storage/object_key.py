"""What reading and writing objects takes that a customer's key encrypts."""

from aws_cdk import aws_iam as iam

READ = ("kms:Decrypt",)
WRITE = ("kms:Decrypt", "kms:GenerateDataKey")
"""The parts of a large object are encrypted with a data key that has to be decrypted again for each of them."""


def key_statements(key_arn: str | None, actions: tuple[str, ...]) -> list[iam.PolicyStatement]:
    """Return the use of the key `key_arn` through S3 of its region; nothing without a key.

    The key's own policy has to consent, too.
    """
    if key_arn is None:
        return []
    region = key_arn.split(":")[3]
    return [
        iam.PolicyStatement(
            actions=list(actions),
            resources=[key_arn],
            conditions={"StringEquals": {"kms:ViaService": f"s3.{region}.amazonaws.com"}},
        )
    ]
