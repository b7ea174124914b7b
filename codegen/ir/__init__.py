"""The types that stages hand on: Assignment, Block, ModuleCall, PackagePlan;
identifiers.
"""
