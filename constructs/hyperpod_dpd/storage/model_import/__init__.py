"""The import of a model into its bucket, run by a build in the account."""

from hyperpod_dpd.storage.model_import.construct import ModelImport

__all__ = ["ModelImport"]
