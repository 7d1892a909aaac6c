"""What demonstrations add up to: sums that can be made in parts, anywhere, and then merged."""
