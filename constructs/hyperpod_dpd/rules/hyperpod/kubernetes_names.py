"""What Kubernetes accepts as the key or value of a label, and what belongs to others."""

import re

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_RESERVED = ("kubernetes.io", "k8s.io", "sagemaker.amazonaws.com", "eks.amazonaws.com", "karpenter.sh")


def trouble_with_key(key: str) -> str:
    """Return what is wrong with the key of a label or taint, or nothing."""
    prefix, slash, name = key.rpartition("/")
    if slash and not _PREFIX.fullmatch(prefix):
        return "the part before `/` is not a DNS name of at most 253 characters"
    if not _NAME.fullmatch(name):
        return "not 1 to 63 letters, digits, `-`, `_` or `.` between letters or digits"
    for reserved in _RESERVED:
        if prefix == reserved or prefix.endswith(f".{reserved}"):
            return f"the prefix `{reserved}` is reserved"
    return ""


def trouble_with_value(value: str) -> str:
    """Return what is wrong with the value of a label or taint, or nothing."""
    if value and not _NAME.fullmatch(value):
        return "not at most 63 letters, digits, `-`, `_` or `.` between letters or digits"
    return ""
