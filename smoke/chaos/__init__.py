"""``python -m smoke chaos``: faults at random under a steady load, and what must hold nevertheless."""
