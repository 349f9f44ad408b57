"""Rules about VPC, subnets and the EFA security group."""
