"""Rehearsal: the rendered manifests of a profile as processes of this machine, before any hardware is there.

`plan` reads manifests as Kubernetes would and says what it would refuse or leave pending: `pods` what the kubelet would
start, `nodes` where the scheduler would put it, `wiring` whether the parts find each other. `cluster` runs what is left:
containers' commands as processes with loopback addresses of their own, probes, Services, EndpointSlices; `engines` says
whether engines are simulated or real. `run` sends requests through the real router, makes faults happen, and compares
with the planner and the announcement; `rehearsal` does that for each profile, and `report` shows what came out.
"""
