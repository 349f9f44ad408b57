"""An instance group of the specification as `AWS::SageMaker::Cluster` wants it."""

from aws_cdk import aws_sagemaker as sagemaker

from hyperpod_dpd.spec import InstanceGroup, Spot, TrainingPlan

_Cluster = sagemaker.CfnCluster


def instance_group(
    group: InstanceGroup,
    *,
    execution_role_arn: str,
    scripts_uri: str,
    on_create: str,
    subnet_id: str,
    security_group_id: str,
) -> sagemaker.CfnCluster.ClusterInstanceGroupProperty:
    """Return the properties of `group`.

    Raises:
        ValueError: the group names a placement group, which `AWS::SageMaker::Cluster` has no property for.
    """
    if group.placement_group is not None:
        raise ValueError(
            f"DPD-HP-002 instance group `{group.name}` names a placement group: given "
            f"`placement_group: {group.placement_group}`; `AWS::SageMaker::Cluster` cannot place a group. "
            "help: remove `placement_group`; nodes of a training plan are placed together already"
        )
    return _Cluster.ClusterInstanceGroupProperty(
        instance_group_name=group.name,
        instance_type=group.instance_type,
        instance_count=group.count,
        min_instance_count=group.minimum,
        execution_role=execution_role_arn,
        life_cycle_config=_Cluster.ClusterLifeCycleConfigProperty(
            source_s3_uri=scripts_uri, on_create=on_create
        ),
        # absent means 1, in updates too
        threads_per_core=group.threads_per_core,
        # pinned although the cluster has only this subnet: the override cannot be added to a group later
        override_vpc_config=_Cluster.VpcConfigProperty(
            security_group_ids=[security_group_id], subnets=[subnet_id]
        ),
        instance_storage_configs=_volumes(group),
        on_start_deep_health_checks=list(group.deep_health_checks) or None,
        kubernetes_config=_kubernetes(group),
        training_plan_arn=group.capacity.arn if isinstance(group.capacity, TrainingPlan) else None,
        capacity_requirements=(
            _Cluster.ClusterCapacityRequirementsProperty(spot={})
            if isinstance(group.capacity, Spot)
            else None
        ),
    )


def _volumes(group: InstanceGroup) -> list[sagemaker.CfnCluster.ClusterInstanceStorageConfigProperty]:
    key = group.volumes_kms_key_arn
    volumes = [
        _Cluster.ClusterEbsVolumeConfigProperty(volume_size_in_gb=group.volume_gib, volume_kms_key_id=key)
    ]
    if key is not None:
        # HyperPod determines the root volume's size, and takes a key for it only
        volumes.append(_Cluster.ClusterEbsVolumeConfigProperty(root_volume=True, volume_kms_key_id=key))
    return [_Cluster.ClusterInstanceStorageConfigProperty(ebs_volume_config=volume) for volume in volumes]


def _kubernetes(group: InstanceGroup) -> sagemaker.CfnCluster.ClusterKubernetesConfigProperty | None:
    if not group.labels and not group.taints:
        return None
    return _Cluster.ClusterKubernetesConfigProperty(
        labels=group.labels or None,
        taints=[
            _Cluster.ClusterKubernetesTaintProperty(key=taint.key, value=taint.value, effect=taint.effect)
            for taint in group.taints
        ]
        or None,
    )
