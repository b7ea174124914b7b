"""Packages in the place of the models that they were made from, in other programs."""
