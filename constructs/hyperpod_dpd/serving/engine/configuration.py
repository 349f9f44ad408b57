"""From a deployment and a role to everything that its engine is told."""

from hyperpod_dpd.derive import ServingFacts, resolve
from hyperpod_dpd.serving.engine.arguments import colocated_arguments, worker_arguments
from hyperpod_dpd.serving.engine.environment import environment
from hyperpod_dpd.serving.engine.generation import generation
from hyperpod_dpd.serving.engine.kv_transfer import kv_transfer_config
from hyperpod_dpd.serving.engine.launcher import LAUNCHER_COMMAND, launcher
from hyperpod_dpd.serving.engine.lmcache import LMCACHE_FILE, lmcache_yaml
from hyperpod_dpd.serving.engine.ports import ports
from hyperpod_dpd.serving.engine.probes import probes
from hyperpod_dpd.serving.engine.resources import resources, scratch_directories
from hyperpod_dpd.serving.engine.values import ConfigFile, EngineConfiguration, Variant
from hyperpod_dpd.serving.images import pulled
from hyperpod_dpd.spec import Deployment, Role


def engine_configuration(
    deployment: Deployment,
    role: Role,
    *,
    variant: Variant = Variant.BASELINE,
    nodes: Role = Role.PREFILL,
) -> EngineConfiguration:
    """Return what the workers of `role` run.

    Args:
        deployment: the deployment, which the rules have let through.
        role: `prefill`, `decode`, or `colocated` for the comparison on the same GPUs.
        variant: which comparison; only `colocated` looks at it.
        nodes: whose nodes a colocated worker runs on, prefill's or decode's; they may differ in size.

    Raises:
        UnresolvedError: something that the deployment names does not exist or does not go together.
    """
    facts = resolve(deployment)
    colocated = role is Role.COLOCATED
    place = facts.role(nodes if colocated else role)
    transfer = None if colocated else kv_transfer_config(deployment, role)
    lmcache = None if colocated else lmcache_yaml(deployment, facts, role)
    arguments = (
        colocated_arguments(deployment, facts, variant)
        if colocated
        else worker_arguments(deployment, facts, role, transfer)
    )
    files = [launcher()]
    if lmcache is not None:
        files.append(ConfigFile(name=LMCACHE_FILE, text=lmcache))
    return EngineConfiguration(
        role=role,
        variant=variant if colocated else None,
        engine=facts.engine,
        image=_image(deployment, facts),
        command=LAUNCHER_COMMAND,
        arguments=("vllm", "serve", *arguments),
        kv_transfer_config=transfer,
        lmcache_yaml=lmcache,
        files=tuple(files),
        environment=environment(deployment, facts, role),
        ports=ports(deployment, facts, role),
        resources=resources(deployment, facts, place, role),
        probes=probes(facts),
        scratch=scratch_directories(deployment),
        generation=generation(deployment, facts),
    )


def _image(deployment: Deployment, facts: ServingFacts) -> str | None:
    """Return what the deployment names, or what the catalog names; None: the image that is built for it."""
    known = deployment.serving.engine.image or deployment.platform.images.worker or facts.engine.triple.image
    return pulled(known, deployment) if known else None
