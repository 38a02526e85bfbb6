"""Builds the Ray Serve application of a cluster: a deployment per model, and the edge in front."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from ipaddress import ip_address
from typing import Any

from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy
from ray.serve.schema import LoggingConfig

from rhapsode import __version__
from rhapsode.cluster.ingress import EdgeIngress
from rhapsode.cluster.replica import ModelReplica
from rhapsode.config.cluster import ClusterConfig, ClusterModel, ReplicaCount, Scaling, as_plain
from rhapsode.serve.server import LAST_BYTES_S

APPLICATION = "rhapsode"
EDGE = "edge"
CONTROL_CALLS = 1000
"""Calls of Ray that one replica answers at once. They are short, and none carries audio."""
PROXIED_REQUESTS = 10_000
"""Requests through Ray's proxy that one edge forwards at once: the replicas decide what is too much."""


def build_application(config: ClusterConfig) -> Application:
    host = config.replica_host or (config.server.host if _is_loopback(config.server.host) else None)
    models = {}
    for name, model in config.models.items():
        replica: Any = serve.deployment(ModelReplica, name=deployment_name(name), **_model_options(config, model))
        models[name] = _versioned(replica, as_plain(config.deployment(name)), host)
    edge: Any = serve.deployment(serve.ingress()(EdgeIngress), name=EDGE, **_edge_options(config))
    return _versioned(edge, as_plain(config.for_edge()), models)


def _versioned(deployment: Any, content: dict[str, Any], *more: Any) -> Application:
    """Returns the deployment with its arguments. Its version is a hash of the content.

    Ray's public API gives every deployment a random version: an update would replace all replicas of all models.
    """
    text = json.dumps([__version__, content], sort_keys=True)
    deployment._version = hashlib.sha256(text.encode()).hexdigest()[:16]
    application: Application = deployment.bind(content, *more)
    return application


def deployment_name(model: str) -> str:
    """Returns the name of a model's deployment: Ray's names have fewer characters than ours."""
    return "model-" + re.sub(r"[^A-Za-z0-9_.-]", "-", model)


def _model_options(config: ClusterConfig, model: ClusterModel) -> dict[str, Any]:
    scaling, count = model.scaling, model.replicas
    fixed = {"num_replicas": count.min} if count.min == count.max else {}
    return {
        **(fixed or {"autoscaling_config": _autoscaling(count, scaling)}),
        "ray_actor_options": {"num_cpus": model.cpus, "num_gpus": model.gpus, "resources": model.resources},
        "max_ongoing_requests": CONTROL_CALLS,
        **_common_options(config),
    }


def _autoscaling(count: ReplicaCount, scaling: Scaling) -> AutoscalingConfig:
    with warnings.catch_warnings():
        # Its successor is an environment variable of every replica: one value, 10 s, for all deployments of a cluster.
        warnings.filterwarnings("ignore", "The `metrics_interval_s` field", DeprecationWarning)
        return AutoscalingConfig(
            min_replicas=count.min,
            max_replicas=count.max,
            upscale_delay_s=scaling.up_delay_s,
            downscale_delay_s=scaling.down_delay_s,
            downscale_to_zero_delay_s=scaling.to_zero_delay_s,
            look_back_period_s=scaling.window_s,
            metrics_interval_s=min(1.0, scaling.window_s / 2),
            policy=AutoscalingPolicy(
                policy_function="rhapsode.cluster.scaling:LoadPolicy", policy_kwargs={"target": scaling.target}
            ),
        )


def _edge_options(config: ClusterConfig) -> dict[str, Any]:
    return {
        "num_replicas": config.edges,
        "max_replicas_per_node": 1,  # all of them listen on the same port
        "ray_actor_options": {"num_cpus": 0},
        "max_ongoing_requests": PROXIED_REQUESTS,
        **_common_options(config),
    }


def _common_options(config: ClusterConfig) -> dict[str, Any]:
    return {
        # Ray kills a replica that has not ended by then. Our replicas end their last stream earlier.
        "graceful_shutdown_timeout_s": config.server.drain_timeout_s + 3 * LAST_BYTES_S,
        "graceful_shutdown_wait_loop_s": 0.1,
        "health_check_period_s": 5.0,
        "health_check_timeout_s": 30.0,
        "logging_config": LoggingConfig(enable_access_log=False),  # the edge asks for reports twice a second
    }


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
