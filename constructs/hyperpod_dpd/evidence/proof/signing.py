"""Signed requests to Amazon Managed Service for Prometheus."""


def signed_headers(url: str, *, region: str) -> dict[str, str]:
    """Return the headers that sign a GET of `url`, with the credentials of this pod or user.

    Raises:
        OSError: there are no credentials, or nothing that could sign.
    """
    try:
        from botocore.auth import SigV4Auth  # noqa: PLC0415 - half a second, for those who sign
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415
        from botocore.session import get_session  # noqa: PLC0415
    except ImportError:
        raise OSError("botocore is not installed, and nothing else can sign") from None
    request = AWSRequest(method="GET", url=url)
    try:
        credentials = get_session().get_credentials()
        if credentials is None:
            raise OSError("there are no AWS credentials to sign with")
        SigV4Auth(credentials, "aps", region).add_auth(request)
    except BotoCoreError as error:
        # Pod Identity's agent that does not answer, a profile that is none
        raise OSError(f"no AWS credentials to sign with: {error}") from None
    return {str(name): str(value) for name, value in request.headers.items()}
