"""What operators of foreign formats mean, each meaning once, put together of ours."""
