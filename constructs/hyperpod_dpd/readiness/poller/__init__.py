"""The function that looks once a minute whether what a deployment waits for is there, and tells CloudFormation.

Runs on Lambda with the standard library and boto3 only. It imports nothing of the library but itself.
"""
