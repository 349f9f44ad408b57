"""The Lambda function that starts builds for CloudFormation and answers once they have ended."""
