"""Which operators run as one (DNNFusion; TVM as the baseline), and why."""
