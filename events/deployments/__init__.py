"""Which versions the instances of a service told, and when: what was deployed, and what was taken back."""
