"""The Lambda function behind the import of dashboards."""
