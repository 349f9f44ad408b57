"""Whether the endpoint answers."""

from collections.abc import Iterator

from hyperpod_dpd.serving import names
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.status.observation import Answer, Row, State, Unseen
from hyperpod_dpd.status.outside import Outside

_OK = 200


def endpoint(deployment: Deployment, outside: Outside) -> Iterator[Answer]:
    """Yield what `/ready` answers, and the state of the SageMaker endpoint of the operator backend."""
    operator = deployment.serving.operator
    if deployment.serving.backend == "operator" and operator.registers_endpoint:
        name = operator.endpoint_name or deployment.name
        found = outside.account.client("sagemaker").describe_endpoint(EndpointName=name)
        word = found["EndpointStatus"]
        busy = word in ("Creating", "Updating", "SystemUpdating", "RollingBack")
        state = State.WELL if word == "InService" else State.BUSY if busy else State.ILL
        yield Row(kind="endpoint", name=name, state=state, word=word, detail=found.get("FailureReason", ""))
    if outside.endpoint is None:
        service = f"{names.router_service()}.{names.system_namespace(deployment)}"
        yield Unseen(
            what="`/ready` of the endpoint",
            why=f"its address is known inside the cluster only. help: `kubectl port-forward --namespace "
            f"{names.system_namespace(deployment)} service/{names.router_service()} {names.ROUTER_PORT}` "
            f"({service}), then give `--endpoint http://127.0.0.1:{names.ROUTER_PORT}`",
            skipped=True,
        )
        return
    url = f"{outside.endpoint.rstrip('/')}/ready"
    try:
        status = outside.status_of(url)
    except OSError as error:
        reason = getattr(error, "reason", None) or error
        yield Row(kind="endpoint", name=url, state=State.ILL, word="unreachable", detail=str(reason))
        return
    yield Row(
        kind="endpoint",
        name=url,
        state=State.WELL if status == _OK else State.ILL,
        word=str(status),
        detail="" if status == _OK else "no decoder is left, or what answers is not the router",
    )
