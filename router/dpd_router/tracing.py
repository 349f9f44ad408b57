"""OpenTelemetry traces, where the extra `otel` is installed and an endpoint is set."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from dpd_router._version import __version__


class TracingError(Exception):
    """Traces are asked for and cannot be sent."""


class Tracing:
    """Spans around requests; without an endpoint it does nothing and costs nothing."""

    def __init__(self, otlp_endpoint: str) -> None:
        """Set up the exporter.

        Raises:
            TracingError: the extra is not installed.
        """
        self._tracer: Any = None
        self._provider: Any = None
        if otlp_endpoint:
            self._set_up(otlp_endpoint)

    def _set_up(self, otlp_endpoint: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
            from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
            from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
            from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        except ImportError:
            raise TracingError(
                "`--otlp-endpoint` is set and OpenTelemetry is not installed. help: install `dpd-router[otel]`"
            ) from None
        resource = Resource.create({"service.name": "dpd-router", "service.version": __version__})
        self._provider = TracerProvider(resource=resource)
        exporter = OTLPSpanExporter(endpoint=otlp_endpoint.rstrip("/") + "/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("dpd_router")

    @contextlib.contextmanager
    def request(self, path: str, request_id: str, headers: Mapping[str, str]) -> Iterator[dict[str, str]]:
        """Open a span that continues the client's trace; yields the headers that go on to the workers."""
        if self._tracer is None:
            yield {}
            return
        from opentelemetry.propagate import extract, inject  # noqa: PLC0415
        from opentelemetry.trace import SpanKind  # noqa: PLC0415

        parent = extract({name.lower(): value for name, value in headers.items()})
        with self._tracer.start_as_current_span(
            path, context=parent, kind=SpanKind.SERVER, attributes={"dpd.request_id": request_id}
        ):
            carrier: dict[str, str] = {}
            inject(carrier)
            yield carrier

    def annotate(self, **attributes: str) -> None:
        """Add attributes to the current span."""
        if self._tracer is None:
            return
        from opentelemetry.trace import get_current_span  # noqa: PLC0415

        get_current_span().set_attributes({f"dpd.{name}": value for name, value in attributes.items()})

    def stop(self) -> None:
        """Send what is left."""
        if self._provider is not None:
            self._provider.shutdown()
