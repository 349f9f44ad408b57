"""Accepted findings of the platform stack."""

from collections.abc import Iterator, Sequence
from typing import Final

from hyperpod_dpd.security.acknowledgement import NagAcknowledgement

_ACCOUNT: Final = "<region>:<account>"
_PROVIDER: Final = "Kubectl/Provider"
_HANDLER_POLICY: Final = f"{_PROVIDER}/Handler/ServiceRole/DefaultPolicy/Resource"
_OPERATOR: Final = "Cluster/InferenceOperator"
_READS_MODEL: Final = (
    "the files of one model, in one folder of one bucket; their names are the model's own, and readable only"
)


def _platform(path: str, *findings: str, reason: str, optional: bool = False) -> Iterator[NagAcknowledgement]:
    for finding in findings:
        yield NagAcknowledgement(
            part="platform", path=path, finding=finding, reason=reason, optional=optional
        )


def _managed(policy: str) -> str:
    return f"IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{policy}]"


def _resources(*arns: str) -> Sequence[str]:
    return [f"IAM5[Resource::{arn}]" for arn in arns]


def _balancers(path: str) -> Iterator[NagAcknowledgement]:
    """Yield what the load balancer controller's policy holds, inside the add-on or alone."""
    policy = f"{path}/Role/DefaultPolicy/Resource"
    yield from _platform(
        policy,
        *_resources("*"),
        reason="load balancers, certificates and the VPC are looked up by calls that know no resources",
        optional=True,
    )
    yield from _platform(
        policy,
        *_resources(
            f"arn:aws:ec2:{_ACCOUNT}:security-group/*",
            f"arn:aws:elasticloadbalancing:{_ACCOUNT}:loadbalancer/*",
            f"arn:aws:elasticloadbalancing:{_ACCOUNT}:targetgroup/*",
        ),
        reason="what the controller makes has no name before; it may touch only what carries the tag of this cluster",
        optional=True,
    )
    yield from _platform(
        policy,
        *_resources(
            f"arn:aws:elasticloadbalancing:{_ACCOUNT}:listener/app/*",
            f"arn:aws:elasticloadbalancing:{_ACCOUNT}:listener-rule/app/*",
        ),
        reason="listeners and their rules are made before they can be tagged, below load balancers that are tagged",
        optional=True,
    )
    yield from _platform(
        policy,
        *_resources("arn:aws:iam::<account>:role/aws-service-role/elasticloadbalancing.amazonaws.com/*"),
        reason="the role that the service makes for itself at the first load balancer of an account, and no other",
        optional=True,
    )


def _keda(path: str) -> Iterator[NagAcknowledgement]:
    return _platform(
        f"{path}/Role/DefaultPolicy/Resource",
        *_resources("*"),
        reason="a metric of CloudWatch has no ARN, and reading is all that the policy allows",
        optional=True,
    )


PLATFORM: Final = (
    *_platform(
        f"{_PROVIDER}/Handler/ServiceRole/Resource",
        _managed("service-role/AWSLambdaBasicExecutionRole"),
        _managed("service-role/AWSLambdaVPCAccessExecutionRole"),
        _managed("AmazonEC2ContainerRegistryReadOnly"),
        'IAM4[Policy::{"Fn::If":["KubectlProviderHandlerHasEcrPublicF3AC66B7",{"Fn::Join":["",["arn:",{"Ref":'
        '"AWS::Partition"},":iam::aws:policy/AmazonElasticContainerRegistryPublicReadOnly"]]},{"Ref":"AWS::NoValue"}]}]',
        reason="aws-cdk-lib's own kubectl provider: log, interfaces in the VPC, charts from registries, by AWS's policies",
    ),
    *_platform(
        _HANDLER_POLICY,
        "IAM5[Action::s3:GetBucket*]",
        "IAM5[Action::s3:GetObject*]",
        "IAM5[Action::s3:List*]",
        "IAM5[Resource::arn:aws:s3:::cdk-<qualifier>-assets-<account>-<region>/*]",
        reason="aws-cdk-lib's own grant to its kubectl provider: it reads charts from the bucket of the deployment's assets",
    ),
    *_platform(
        f"{_PROVIDER}/Handler/Resource",
        "L1",
        reason="aws-cdk-lib chooses the runtime of its own kubectl provider",
    ),
    *_platform(
        f"{_PROVIDER}/Provider/framework-onEvent/ServiceRole/Resource",
        _managed("service-role/AWSLambdaBasicExecutionRole"),
        _managed("service-role/AWSLambdaVPCAccessExecutionRole"),
        reason="aws-cdk-lib's own provider framework: log and interfaces in the VPC, by AWS's policies for functions",
    ),
    *_platform(
        f"{_PROVIDER}/Provider/framework-onEvent/ServiceRole/DefaultPolicy/Resource",
        "IAM5[Resource::<KubectlProviderHandler14607D6C.Arn>:*]",
        reason="aws-cdk-lib's own provider framework calls its kubectl function, in whichever version is current",
    ),
    *_platform(
        "Readiness/Role/DefaultPolicy/Resource",
        *_resources("*"),
        reason="what Lambda asks for to run a function in a VPC; its interfaces get their ids when they are made",
    ),
    *_platform(
        "Readiness/Role/DefaultPolicy/Resource",
        *_resources(f"arn:aws:eks:{_ACCOUNT}:addon/<eks>/*"),
        reason="the ARN of an add-on ends with an id that EKS makes up; the cluster is named, and it is only looked at",
        optional=True,
    ),
    *_platform(
        "Secrets/huggingface",
        "SMG4",
        reason="the token of a Hugging Face account: its owner rotates it there, no function of AWS can",
        optional=True,
    ),
    *(
        row
        for image in ("Benchmark", "Proof", "Router", "Worker")
        for row in (
            *_platform(
                f"Images/{image}/Build/Project",
                "CB4",
                reason="the build has no artifacts and no cache, and the image's repository has encryption of its own",
                optional=True,
            ),
            *_platform(
                f"Images/{image}/Build/Role/DefaultPolicy/Resource",
                *_resources("*"),
                reason="a registry token belongs to the account, not to a repository; the repository itself is named",
                optional=True,
            ),
        )
    ),
    *_platform(
        "ImageMirror/Build/Project",
        "CB4",
        reason="the build has no artifacts and no cache, and the repositories of its copies have encryption of their own",
        optional=True,
    ),
    *_platform(
        "ImageMirror/Build/Role/DefaultPolicy/Resource",
        *_resources("*", f"arn:aws:ecr:{_ACCOUNT}:repository/mirror/*"),
        reason="a registry token belongs to the account; copies are made below one prefix that holds nothing else",
        optional=True,
    ),
    *_platform(
        "NightsOff/CallerRole/DefaultPolicy/Resource",
        "IAM5[Resource::<NightsOffFunction17A14352.Arn>:*]",
        reason="aws-cdk-lib's own grant to a schedule: it calls one function, in whichever version is current",
        optional=True,
    ),
    *_platform(
        "ModelImport/Build/Project",
        "CB4",
        reason="the build has no artifacts and no cache; what it makes goes to a bucket that is encrypted",
        optional=True,
    ),
    *_platform(
        "ModelImport/Build/Role/DefaultPolicy/Resource",
        "IAM5[Resource::<models>/<model>/*]",
        reason="the import writes the files of one model into one folder; their names are the model's own",
        optional=True,
    ),
    *_platform(
        "ModelImport/Build/Role/DefaultPolicy/Resource",
        *_resources("<origin>/*"),
        reason="the import reads the files of one folder; their names are the model's own",
        optional=True,
    ),
    *_platform(
        "ModelImport/Build/Role/DefaultPolicy/Resource",
        *_resources(f"arn:aws:kms:{_ACCOUNT}:key/*"),
        reason="the key of a token that was there already is not named; the context ties its use to that one secret",
        optional=True,
    ),
    *(
        row
        for path in ("MountModel/Resource", "Workers/Role/DefaultPolicy/Resource")
        for row in _platform(
            path,
            "IAM5[Resource::<models>/<model>/*]",
            reason=_READS_MODEL,
            optional=True,
        )
    ),
    *_platform(
        "Benchmarks/Identity/Role/DefaultPolicy/Resource",
        "IAM5[Resource::<BenchmarksResultsBucket785A0373.Arn>/benchmarks/<deployment>/*]",
        reason="a benchmark writes results into the folder of its deployment, under names that carry the time",
    ),
    *_platform(
        "Benchmarks/Identity/Role/DefaultPolicy/Resource",
        "IAM5[Resource::<models>/<model>/*]",
        reason=_READS_MODEL,
        optional=True,
    ),
    *_platform(
        "Cluster/Watch/Role/DefaultPolicy/Resource",
        *_resources("*"),
        reason="a metric of CloudWatch has no ARN; the policy names the namespace of metrics instead",
        optional=True,
    ),
    *_platform(
        "Cluster/Watch/Role/DefaultPolicy/Resource",
        *_resources(f"arn:aws:eks:{_ACCOUNT}:addon/<eks>/*"),
        reason="the ARN of an add-on ends with an id that EKS makes up; the cluster is named, and it is only looked at",
        optional=True,
    ),
    *_platform(
        "Cluster/Watch/Role/DefaultPolicy/Resource",
        "IAM5[Action::kms:GenerateDataKey*]",
        reason="aws-cdk-lib's own grant to publish to an encrypted topic; the key is named",
        optional=True,
    ),
    *_platform(
        "Cluster/Addons/Storage/Fsx/Role/DefaultPolicy/Resource",
        *_resources("*"),
        reason="FSx describes file systems by a call that knows no resources; the driver may do nothing else",
        optional=True,
    ),
    *_platform(
        f"{_OPERATOR}/Operator/Role/Resource",
        _managed("AmazonSageMakerHyperPodInferenceAccess"),
        reason="SageMaker documents this policy as required for the inference operator and extends it with the service",
        optional=True,
    ),
    *_platform(
        f"{_OPERATOR}/Operator/Role/DefaultPolicy/Resource",
        *_resources(f"arn:aws:acm:{_ACCOUNT}:certificate/*"),
        reason="the operator imports certificates that it made itself; ACM gives them their ids",
        optional=True,
    ),
    *_platform(
        f"{_OPERATOR}/Operator/Role/DefaultPolicy/Resource",
        *_resources("<ClusterInferenceOperatorCertificatesBucketE67BD930.Arn>/*"),
        reason="the operator tags the certificate files that it writes into the bucket that holds nothing else",
        optional=True,
    ),
    *_balancers(f"{_OPERATOR}/LoadBalancers"),
    *_balancers("Cluster/aws-load-balancer-controller/Identity"),
    *_keda(f"{_OPERATOR}/Keda"),
    *_keda("Cluster/keda/Identity"),
    *_platform(
        "Cluster/Observability/Collector/Role/DefaultPolicy/Resource",
        *_resources(f"arn:aws:logs:{_ACCOUNT}:log-group:/aws/sagemaker/Clusters/<hyperpod>/*"),
        reason="HyperPod ends the name of its log group with an id of its own; the cluster is named",
        optional=True,
    ),
    *_platform(
        "Cluster/ExternalSecrets/Release/Identity/Role/DefaultPolicy/Resource",
        *_resources(
            f"arn:aws:secretsmanager:{_ACCOUNT}:secret:hyperpod-dpd/*", f"arn:aws:kms:{_ACCOUNT}:key/*"
        ),
        reason="secrets of every deployment on the cluster, by the prefix that they all have, and the keys behind them",
        optional=True,
    ),
)
"""Every accepted finding of the platform stack. What is optional is part of some deployments only."""
