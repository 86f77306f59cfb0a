"""The values for which the chart is rendered and looked at."""

from __future__ import annotations

from tests.helm.chart import Object

VALUES: dict[str, Object] = {
    "defaults": {},
    "daemonset": {
        "mode": "daemonset",
        "service": {"internalTrafficPolicy": "Local"},
        "tolerations": [{"operator": "Exists"}],
    },
    "sidecar": {
        "mode": "sidecar",
        "sidecar": {"containers": [{"name": "shop", "image": "shop:1"}], "volumes": [{"name": "data", "emptyDir": {}}]},
        "metrics": {"podMonitor": True},
        "recordings": {"enabled": True, "size": "512Mi"},
    },
    "everything": {
        "image": {"digest": "sha256:" + "0" * 64, "pullSecrets": [{"name": "registry"}]},
        "upstream": {
            "address": "rabbit.prod:5671",
            "tls": {"ca": "/etc/amqproxy/secrets/broker/ca.crt"},
            "proxyProtocol": True,
        },
        "config": {
            "rules": [{"action": "refuse", "match": {"method": "queue.purge"}, "name": "no purge"}],
            "limits": {"connections": 500},
        },
        "drain": {"seconds": 60, "delaySeconds": 10},
        "tls": {"secretName": "tls", "clientAuthority": True},
        "secrets": [{"name": "broker"}, {"name": "own", "secretName": "another"}],
        "env": [{"name": "TZ", "value": "UTC"}],
        "service": {
            "type": "LoadBalancer",
            "port": 5671,
            "annotations": {"a": "b"},
            "trafficDistribution": "PreferSameZone",
        },
        "dashboard": {"enabled": True, "tokenSecret": "token", "hosts": ["amqp.example.com"]},
        "recordings": {"enabled": True, "storageClassName": "fast", "body": 0, "filter": "exchange == 'orders'"},
        "metrics": {
            "podMonitor": True,
            "serviceMonitor": True,
            "prometheusRule": True,
            "grafanaDashboard": True,
            "labels": {"release": "prometheus"},
        },
        "networkPolicy": {"enabled": True, "upstream": [{"podSelector": {"matchLabels": {"app": "rabbitmq"}}}]},
        "autoscaling": {"hpa": {"enabled": True}},
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "priorityClassName": "high",
    },
    "members": {
        "upstream": {
            "members": [{"address": "rabbit-0.rabbit:5671"}, {"address": "rabbit-1.rabbit:5671", "weight": 2}],
            "tls": {"ca": "/etc/amqproxy/secrets/broker/ca.crt"},
            "login": {"user": "proxy", "password_file": "/etc/amqproxy/secrets/broker/password"},
        },
        "login": {
            "users_file": "/etc/amqproxy/secrets/broker/users.yaml",
            "callback": {"url": "https://users.internal/auth/user"},
        },
        "config": {"upstreams": {"rabbit": {"selection": "least_connections", "check": {"kind": "tls"}}}},
        "secrets": [{"name": "broker"}],
        "networkPolicy": {"enabled": True},
    },
    "keda": {
        "autoscaling": {"keda": {"enabled": True, "prometheus": "http://prometheus:9090"}},
        "topologySpread": False,
    },
    "pipeline": {
        "pipeline": {
            "enabled": True,
            "runner": "submit",
            "live": {"enabled": False},
            "batch": {"enabled": True},
            "compaction": {"enabled": True},
        },
    },
    "shared recordings": {
        "recordings": {"enabled": True, "existingClaim": "recordings"},
        "serviceAccount": {"create": False},
    },
}
