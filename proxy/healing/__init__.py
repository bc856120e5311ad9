"""The request healed: what a model server or its chat template would refuse, or lose in silence, is put right."""
