"""What people say: labels, agreement with them, and a page to collect them."""
