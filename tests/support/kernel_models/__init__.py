"""Small models that each become one kernel, by what their kernels go through."""
