{{/* Names, labels, the config, and the pod's parts that all modes share. */}}

{{- define "amqproxy.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "amqproxy.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Of the pod of `helm test`: not those that the Service selects by. */}}
{{- define "amqproxy.testLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "amqproxy.labels" -}}
{{ include "amqproxy.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "amqproxy.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "amqproxy.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "amqproxy.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{/* Pods that record have a volume of their own each, which outlives them. */}}
{{- define "amqproxy.kind" -}}
{{- if eq .Values.mode "daemonset" }}DaemonSet{{ else if and (eq .Values.mode "deployment") .Values.recordings.enabled (not .Values.recordings.existingClaim) }}StatefulSet{{ else }}Deployment{{ end }}
{{- end }}

{{/* Seconds until SIGKILL: the delay, or what the containers beside a sidecar take to end; the drain; and what comes after it. */}}
{{- define "amqproxy.grace" -}}
{{ add (eq .Values.mode "sidecar" | ternary .Values.sidecar.graceSeconds .Values.drain.delaySeconds) .Values.drain.seconds 15 }}
{{- end }}

{{/* Bytes of a quantity such as 20Gi. */}}
{{- define "amqproxy.bytes" -}}
{{- $factors := dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 -}}
{{- $unit := regexFind "[A-Za-z]+$" . -}}
{{ mul (trimSuffix $unit . | int64) (get $factors $unit | default 1 | int64) }}
{{- end }}

{{/* How many pods end at once when there are too many. */}}
{{- define "amqproxy.scaling" -}}
# Connections are long: each pod that ends costs its clients a reconnect.
scaleDown: {stabilizationWindowSeconds: 600, policies: [{type: Pods, value: 1, periodSeconds: 300}]}
{{- end }}

{{/* The config file: what the values say, over what `config` has. */}}
{{- define "amqproxy.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $listener := dict "address" ":5672" -}}
{{- if eq .Values.mode "sidecar" }}{{ $listener = dict "address" "127.0.0.1:5672" }}{{ end -}}
{{- with .Values.tls.secretName -}}
{{- $tls := dict "certificate" "/etc/amqproxy/tls/tls.crt" "key" "/etc/amqproxy/tls/tls.key" -}}
{{- if $.Values.tls.clientAuthority }}{{ $_ := set $tls "client_ca" "/etc/amqproxy/tls/ca.crt" }}{{ end -}}
{{- $_ := set $listener "tls" $tls -}}
{{- end -}}
{{- $upstream := dict "address" .Values.upstream.address "proxy_protocol" .Values.upstream.proxyProtocol -}}
{{- with .Values.upstream.tls }}{{ $_ := set $upstream "tls" . }}{{ end -}}
{{- with .Values.upstream.login }}{{ $_ := set $upstream "login" . }}{{ end -}}
{{- with .Values.login -}}
{{- $_ := set $listener "login" "clients" -}}
{{- $_ := set $config "logins" (merge (dict "clients" .) ($config.logins | default dict)) -}}
{{- end -}}
{{- $_ := set $config "listen" (list $listener) -}}
{{- if .Values.upstream.members -}}
{{- $group := merge (dict "members" .Values.upstream.members) (omit $upstream "address") (dig "rabbit" dict ($config.upstreams | default dict)) -}}
{{- $_ := set $config "upstreams" (merge (dict "rabbit" $group) ($config.upstreams | default dict)) -}}
{{- $_ := set $config "upstream" "rabbit" -}}
{{- else -}}
{{- $_ := set $config "upstream" $upstream -}}
{{- end -}}
{{- $_ := set $config "metrics" (merge (dict "address" (printf ":%d" (int .Values.metrics.port))) ($config.metrics | default dict)) -}}
{{- $_ := set $config "control" (merge (dict "path" "/run/amqproxy/control.sock") ($config.control | default dict)) -}}
{{- $_ := set $config "log" (merge ($config.log | default dict) (dict "format" "json")) -}}
{{- $_ := set $config "limits" (merge (dict "drain_timeout" (float64 .Values.drain.seconds)) ($config.limits | default dict)) -}}
{{- if .Values.recordings.enabled -}}
{{- $record := dict "directory" "/var/lib/amqproxy/recordings" "file_age" .Values.recordings.fileAge "total_size" (div (mul (include "amqproxy.bytes" .Values.recordings.size | int64) 9) 10) -}}
{{- if not (kindIs "invalid" .Values.recordings.body) }}{{ $_ := set $record "body" (int64 .Values.recordings.body) }}{{ end -}}
{{- with .Values.recordings.filter }}{{ $_ := set $record "filter" . }}{{ end -}}
{{- $_ := set $config "record" (merge $record ($config.record | default dict)) -}}
{{- end -}}
{{- if .Values.dashboard.enabled -}}
{{- $dashboard := dict "listen" (printf "0.0.0.0:%d" (int .Values.dashboard.port)) "read_only" .Values.dashboard.readOnly "token_file" "/etc/amqproxy/dashboard/token" "hosts" .Values.dashboard.hosts -}}
{{- $_ := set $config "dashboard" (merge $dashboard ($config.dashboard | default dict)) -}}
{{- end -}}
{{ toYaml $config }}
{{- end }}

{{/* The container of the proxy; the same in each mode. */}}
{{- define "amqproxy.container" -}}
name: amqproxy
image: {{ include "amqproxy.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [run, --config, /etc/amqproxy/config/amqproxy.yaml]
{{- with .Values.env }}
env: {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - {name: amqp, containerPort: 5672, protocol: TCP}
  - {name: metrics, containerPort: {{ .Values.metrics.port }}, protocol: TCP}
  {{- if .Values.dashboard.enabled }}
  - {name: dashboard, containerPort: {{ .Values.dashboard.port }}, protocol: TCP}
  {{- end }}
startupProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
# A stall of some seconds, of this process or its node, must not take every pod out of the service. A pod that ends is
# taken out without the probe, when its deletion begins.
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
{{- if and (ne .Values.mode "sidecar") .Values.drain.delaySeconds }}
lifecycle:
  preStop:
    # Until then, balancers learn that this pod is about to end; SIGTERM then drains.
    sleep: {seconds: {{ .Values.drain.delaySeconds }}}
{{- end }}
resources: {{- toYaml .Values.resources | nindent 2 }}
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: config, mountPath: /etc/amqproxy/config, readOnly: true}
  - {name: run, mountPath: /run/amqproxy}
  - {name: tmp, mountPath: /tmp}
  {{- if .Values.tls.secretName }}
  - {name: tls, mountPath: /etc/amqproxy/tls, readOnly: true}
  {{- end }}
  {{- if .Values.dashboard.enabled }}
  - {name: dashboard, mountPath: /etc/amqproxy/dashboard, readOnly: true}
  {{- end }}
  {{- if .Values.recordings.enabled }}
  - {name: recordings, mountPath: /var/lib/amqproxy/recordings}
  {{- end }}
  {{- range .Values.secrets }}
  - {name: secret-{{ .name }}, mountPath: /etc/amqproxy/secrets/{{ .name }}, readOnly: true}
  {{- end }}
  {{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}

{{- define "amqproxy.volumes" -}}
- name: config
  configMap: {name: {{ include "amqproxy.name" . }}}
- name: run
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
- name: tmp
  emptyDir: {sizeLimit: 256Mi}
{{- with .Values.tls.secretName }}
- name: tls
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- if .Values.dashboard.enabled }}
- name: dashboard
  secret: {secretName: {{ required "dashboard.tokenSecret: a secret with the key `token`, which browsers have to show" .Values.dashboard.tokenSecret }}, defaultMode: 0440}
{{- end }}
{{- if and .Values.recordings.enabled (ne (include "amqproxy.kind" .) "StatefulSet") }}
- name: recordings
  {{- if .Values.recordings.existingClaim }}
  persistentVolumeClaim: {claimName: {{ .Values.recordings.existingClaim }}}
  {{- else }}
  ephemeral:
    volumeClaimTemplate:
      spec: {{- include "amqproxy.claim" . | nindent 8 }}
  {{- end }}
{{- end }}
{{- range .Values.secrets }}
- name: secret-{{ .name }}
  secret: {secretName: {{ .secretName | default .name }}, defaultMode: 0440}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "amqproxy.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .Values.recordings.storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources: {requests: {storage: {{ .Values.recordings.size }}}}
{{- end }}

{{/* What pods of all modes have in common; containers and volumes follow it. */}}
{{- define "amqproxy.podMetadata" -}}
labels: {{- include "amqproxy.selector" . | nindent 2 }}
  {{- with .Values.podLabels }}{{ toYaml . | nindent 2 }}{{ end }}
annotations:
  # A config that has changed replaces the pods, one after the other, each drained.
  checksum/config: {{ include "amqproxy.config" . | sha256sum }}
  kubectl.kubernetes.io/default-container: {{ if eq .Values.mode "sidecar" }}{{ (first .Values.sidecar.containers).name }}{{ else }}amqproxy{{ end }}
  {{- with .Values.podAnnotations }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}

{{- define "amqproxy.podSpec" -}}
serviceAccountName: {{ include "amqproxy.serviceAccount" . }}
automountServiceAccountToken: {{ .Values.serviceAccount.automount }}
terminationGracePeriodSeconds: {{ include "amqproxy.grace" . }}
securityContext:
  fsGroup: {{ .Values.fsGroup }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if and .Values.topologySpread (ne .Values.mode "daemonset") }}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    {{- if eq (include "amqproxy.kind" $) "Deployment" }}
    matchLabelKeys: [pod-template-hash] # the pods that an update replaces do not count
    {{- end }}
    labelSelector:
      matchLabels: {{- include "amqproxy.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end }}
