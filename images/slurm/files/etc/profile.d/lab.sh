# Login shells reset PATH: put Ray back on it, and point its commands at the lab's Ray head.
PATH=/usr/local/bin:/opt/ray/bin:/usr/bin:/bin:/usr/sbin
export PATH
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=/etc/lab-ray/token
export RAY_ADDRESS=ray://ray-head:10001 RAY_API_SERVER_ADDRESS=http://ray-head:8265
