"""Rehearsal: the rendered manifests of a profile as processes of this machine, before any hardware is there.

`plan` reads manifests as Kubernetes would and says what it would refuse or leave pending; `cluster` runs what is left:
containers' commands as processes with loopback addresses of their own, probes, Services, EndpointSlices; `traffic` sends
requests through the real router; `run` puts it together and compares with the planner and the announcement.
"""
