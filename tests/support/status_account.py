"""An account on loopback in which a deployment runs, for `dpd status`.

moto answers for CloudFormation, EKS, SageMaker and STS; what it does not know (HyperPod events, add-ons) is answered here.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from hyperpod_dpd.derive.addons import installed_addons
from hyperpod_dpd.spec import Deployment

REGION = "us-east-1"

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]


class StatusAccount:
    """What the account answers beyond moto; tests change it while it runs."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.addons: dict[str, dict[str, Any]] = {}
        self.denied: set[str] = set()
        """Operations that the caller may not call."""
        self.hanging: str | None = None
        """Operation that is answered only once `released` is set; `asked` tells that it came."""
        self.asked, self.released = threading.Event(), threading.Event()
        self.updates: list[dict[str, Any]] = []
        """What was asked of `UpdateCluster`; nothing comes of it."""
        self.url = ""

    def answer(self, request: Request) -> Response | None:
        """Return the answer to `request`, or None where moto knows it."""
        target = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
        operation = target or self._eks_operation(request)
        if operation == self.hanging:
            self.asked.set()
            self.released.wait()
        if operation in self.denied:
            text = f"User: arn:aws:iam::123456789012:user/reader is not authorized to perform: {operation}"
            error = json.dumps({"__type": "AccessDeniedException", "message": text})
            return Response(error, status=400, headers={"x-amzn-ErrorType": "AccessDeniedException"})
        if operation == "ListClusterEvents":
            asked = json.loads(request.data)
            kind = asked.get("ResourceType")
            found = [event for event in self.events if kind in (None, event["ResourceType"])]
            begin = int(asked.get("NextToken", 0))
            end = begin + asked["MaxResults"]
            page = {"Events": found[begin:end], **({"NextToken": str(end)} if end < len(found) else {})}
            return Response(json.dumps(page), content_type="application/x-amz-json-1.1")
        if operation == "UpdateCluster":
            self.updates.append(json.loads(request.data))
            arn = "arn:aws:sagemaker:us-east-1:123456789012:cluster/abcdefghijkl"
            return Response(json.dumps({"ClusterArn": arn}), content_type="application/x-amz-json-1.1")
        if operation == "ListAddons":
            return Response(json.dumps({"addons": list(self.addons)}), content_type="application/json")
        if operation == "DescribeAddon":
            name = request.path.rpartition("/")[2]
            return Response(json.dumps({"addon": self.addons[name]}), content_type="application/json")
        return None

    @staticmethod
    def _eks_operation(request: Request) -> str:
        parts = request.path.strip("/").split("/")
        if parts[0] != "clusters" or request.method != "GET":
            return ""
        if len(parts) == 4:
            return "DescribeAddon"
        return "ListAddons" if len(parts) == 3 else "DescribeCluster"

    def client(self, service: str) -> Any:
        """Return a client of the account, to prepare it."""
        return boto3.client(  # type: ignore[call-overload]
            service,
            region_name=REGION,
            endpoint_url=self.url,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def environment(self) -> dict[str, str]:
        """Return the variables that point the AWS SDK here."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def deploy(self, deployment: Deployment) -> None:
        """Put stacks, EKS and HyperPod of `deployment` there, all of them well."""
        cloudformation = self.client("cloudformation")
        for part in ("network", "cluster", "hyperpod"):
            cloudformation.create_stack(
                StackName=f"{deployment.name}-{part}",
                TemplateBody='{"Resources": {"T": {"Type": "AWS::SNS::Topic"}}}',
                Tags=[{"Key": "hyperpod-dpd:deployment", "Value": deployment.name}],
            )
        cloudformation.create_stack(
            StackName="somebody-elses", TemplateBody='{"Resources": {"T": {"Type": "AWS::SNS::Topic"}}}'
        )
        self.client("eks").create_cluster(
            name=deployment.name,
            version=deployment.cluster.kubernetes_version,
            roleArn="arn:aws:iam::123456789012:role/eks",
            resourcesVpcConfig={"subnetIds": ["subnet-1", "subnet-2"]},
        )
        self.addons = {
            row.name: {"addonName": row.name, "status": "ACTIVE", "addonVersion": "v1.0.0-eksbuild.1"}
            for row in installed_addons(deployment)
        }
        self.client("sagemaker").create_cluster(
            ClusterName=deployment.cluster_name,
            InstanceGroups=[
                {
                    "InstanceCount": group.count,
                    "InstanceGroupName": group.name,
                    "InstanceType": group.instance_type,
                    "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-scripts/", "OnCreate": "on_create.sh"},
                    "ExecutionRole": "arn:aws:iam::123456789012:role/node",
                    "ThreadsPerCore": group.threads_per_core,
                }
                for group in deployment.hyperpod.instance_groups
            ],
        )


@contextmanager
def running() -> Iterator[StatusAccount]:
    """Run an empty account on a free port of loopback."""
    account = StatusAccount()
    moto: Wsgi = DomainDispatcherApplication(create_backend_app)

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = Request(environ)
        answer = account.answer(request) if request.headers.get("Authorization") else None
        if answer is not None:
            return answer(environ, start_response)
        return moto(environ, start_response)

    server = make_server("127.0.0.1", 0, application, threaded=True)
    account.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    try:
        yield account
    finally:
        account.released.set()
        server.shutdown()
        thread.join()
