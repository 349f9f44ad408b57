"""The benchmark: genai-bench, run for every concurrency and seed, with a record of every request.

It runs in its image, which has genai-bench, boto3 and prometheus-client, and of this library only `evidence`.
"""
