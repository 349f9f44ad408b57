"""`dpd schema`: the JSON Schema of a deployment file."""

from hyperpod_dpd.cli.output import print_json


def schema_command() -> None:
    """Print the JSON Schema of a deployment file, for editors.

    Example: dpd schema > deployment.schema.json, then put this line at the top of a deployment file:
    # yaml-language-server: $schema=deployment.schema.json
    """
    from hyperpod_dpd.spec.schema import json_schema  # noqa: PLC0415

    print_json(json_schema())
