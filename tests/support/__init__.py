"""What tests share: clients, servers, routers, programs, beds and values."""
