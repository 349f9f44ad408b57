"""The Lambda function behind the dependencies chart's custom resource."""
