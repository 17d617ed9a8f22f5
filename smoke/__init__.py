"""What runs on a lab: payloads for learners, the smoke run, scenarios, and tools that look at both schedulers."""
