"""Everything above put together: PackagePlan."""
