"""The InferenceEndpointConfig of a deployment: disaggregated, or colocated on the same GPUs."""

from typing import Any, Final

from constructs import Construct

from hyperpod_dpd.derive import ServingFacts
from hyperpod_dpd.derive.operator_endpoint import RESOURCE_NAME, endpoint_name
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.objects import api_object
from hyperpod_dpd.serving.operator.given import given
from hyperpod_dpd.serving.operator.scaling import auto_scaling_spec
from hyperpod_dpd.serving.operator.weights import model_source_config, pod_customization
from hyperpod_dpd.serving.operator.worker import role_spec, worker
from hyperpod_dpd.spec import Deployment, EndpointCertificate, OperatorEndpoint, Role

API_VERSION: Final = "inference.sagemaker.aws.amazon.com/v1"
"""`v1alpha1` has no `pdSpec`."""

KIND: Final = "InferenceEndpointConfig"


class InferenceEndpoint(Construct):
    """One custom resource, from which the operator makes workers, router, load balancer and SageMaker endpoint.

    Both forms have one name: applying the colocated one is how AWS goes back from disaggregated serving.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        facts: ServingFacts,
        disaggregates: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        api_object(
            self,
            "endpoint",
            api_version=API_VERSION,
            kind=KIND,
            name=RESOURCE_NAME,
            namespace=names.workers_namespace(deployment),
            labels=names.labels(deployment),
            spec={
                **_endpoint(deployment),
                **_instance_types(facts),
                "modelSourceConfig": model_source_config(deployment),
                "worker": worker(deployment, facts, disaggregates=disaggregates),
                **pod_customization(deployment),
                **_caches(deployment),
                **_operations(deployment.serving.operator),
                **_roles(deployment, facts, disaggregates=disaggregates),
            },
        )


def _endpoint(deployment: Deployment) -> dict[str, Any]:
    operator = deployment.serving.operator
    return {
        # SageMaker's names have no dots; the model's own name is what clients ask for
        "modelName": deployment.name,
        **given(
            endpointName=endpoint_name(deployment) if operator.registers_endpoint else None,
            modelVersion=operator.model_version,
        ),
        "invocationEndpoint": operator.invocation_path,
        **given(
            tags=[{"name": key, "value": text} for key, text in sorted((deployment.tags or {}).items())]
            or None
        ),
    }


def _instance_types(facts: ServingFacts) -> dict[str, Any]:
    types = list(dict.fromkeys((facts.prefill.instance.name, facts.decode.instance.name)))
    return {"instanceType": types[0]} if len(types) == 1 else {"instanceTypes": types}


def _caches(deployment: Deployment) -> dict[str, Any]:
    operator = deployment.serving.operator
    second = operator.second_cache
    return {
        "kvCacheSpec": {
            "enableL1Cache": deployment.serving.instance_cache,
            **given(
                enableL2Cache=True if second else None,
                l2CacheSpec=given(l2CacheBackend=second.backend, l2CacheLocalUrl=second.url)
                if second
                else None,
                cacheConfigFile=operator.cache_config_file,
            ),
        },
        "intelligentRoutingSpec": {
            "enabled": operator.routes_intelligently,
            "routingStrategy": deployment.routing.policy,
        },
    }


def _operations(operator: OperatorEndpoint) -> dict[str, Any]:
    certificate = operator.certificate
    tls = given(
        customCertificateConfig=_certificate(certificate) if certificate else None,
        tlsCertificateOutputS3Uri=operator.certificate_output_s3_uri,
    )
    zone = certificate.hosted_zone_id if certificate else None
    return {
        "loadBalancer": {
            # vLLM has no `/ping`, the operator's default
            "healthCheckPath": "/health",
            **given(routingAlgorithm=operator.load_balancing),
        },
        "metrics": _metrics(operator),
        **given(
            tlsConfig=tls or None,
            dnsConfig={"hostedZoneId": zone} if zone else None,
            maxDeployTimeInSeconds=operator.deploy_timeout_seconds,
        ),
    }


def _certificate(certificate: EndpointCertificate) -> dict[str, str]:
    return {
        "acmArn": certificate.arn or Binding.CERTIFICATE_ARN.placeholder,
        "domainName": certificate.domain_name,
    }


def _metrics(operator: OperatorEndpoint) -> dict[str, Any]:
    if not operator.metrics:
        return {"enabled": False}
    return {
        "enabled": True,
        # vLLM's own port: nobody answers at the operator's default, 8080
        "modelMetrics": {"path": "/metrics", "port": names.WORKER_HTTP_PORT},
        **given(metricsScrapeIntervalSeconds=operator.scrape_interval_seconds),
    }


def _roles(deployment: Deployment, facts: ServingFacts, *, disaggregates: bool) -> dict[str, Any]:
    if not disaggregates:
        return {"replicas": facts.prefill.replicas + facts.decode.replicas}
    topology = deployment.serving.operator.topology
    return {
        "pdSpec": {
            "prefillSpec": role_spec(deployment, facts, Role.PREFILL),
            "decodingSpec": role_spec(deployment, facts, Role.DECODE),
            "routingThreshold": deployment.routing.threshold_tokens,
            "topologySpec": {
                "sameAZ": topology.same_zone,
                **given(availabilityZone=topology.zone_name, placementGroup=topology.placement_group),
            },
            **given(autoScalingSpec=auto_scaling_spec(deployment)),
        }
    }
