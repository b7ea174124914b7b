"""How a network is divided over devices, and what that costs."""
