"""EndpointSlices of one Service, as the API server lists them and tells about changes."""

import abc

import msgspec


class Conditions(msgspec.Struct):
    """State of an endpoint."""

    ready: bool | None = None
    terminating: bool | None = None


class Endpoint(msgspec.Struct):
    """One pod."""

    addresses: list[str]
    conditions: Conditions = msgspec.field(default_factory=Conditions)


class Port(msgspec.Struct):
    """A port of the Service."""

    port: int | None = None
    name: str | None = None


class Metadata(msgspec.Struct, rename="camel"):
    """Name and version of an object or a list."""

    name: str = ""
    resource_version: str = ""


class Slice(msgspec.Struct, rename="camel"):
    """Some endpoints of a Service."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    endpoints: list[Endpoint] | None = None
    ports: list[Port] | None = None


class SliceList(msgspec.Struct):
    """Every slice of a Service."""

    metadata: Metadata
    items: list[Slice] | None = None


class SliceWatch(abc.ABC):
    """Keeps the slices of one Service and acts on every change."""

    def __init__(self, namespace: str, service: str) -> None:
        self.namespace = namespace
        self.service = service
        self.slices: dict[str, Slice] = {}

    def replace(self, slices: list[Slice]) -> None:
        """Take over a full list."""
        self.slices = {item.metadata.name: item for item in slices}
        self.apply()

    def change(self, kind: str, changed: Slice) -> None:
        """Take over one event."""
        if kind == "DELETED":
            self.slices.pop(changed.metadata.name, None)
        else:
            self.slices[changed.metadata.name] = changed
        self.apply()

    @abc.abstractmethod
    def apply(self) -> None:
        """Act on what the slices say now."""
