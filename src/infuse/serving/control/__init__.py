"""What serves, and how it fares: the repository, models' versions, rollouts, telemetry."""
