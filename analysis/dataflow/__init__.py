"""The graph as plain data: a networkx DAG, amounts, mapping types, tiles."""
