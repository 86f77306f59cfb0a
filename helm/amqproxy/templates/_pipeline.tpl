{{/* What every pod of the pipeline has: variables, mounts. */}}
{{- define "amqproxy.pipeline.env" -}}
{{- if .secret }}
envFrom:
  - secretRef:
      name: {{ .secret | quote }}
{{- end }}
{{- if .env }}
env:
  {{- range $name, $value := .env }}
  - name: {{ $name | quote }}
    value: {{ $value | quote }}
  {{- end }}
{{- end }}
{{- if .volumeMounts }}
volumeMounts:
  {{- toYaml .volumeMounts | nindent 2 }}
{{- end }}
{{- end }}

{{- define "amqproxy.pipeline.securityContext" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 185
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* The arguments of a job: "run", "live" or "compact". */}}
{{- define "amqproxy.pipeline.arguments" -}}
{{- $values := index . 0 -}}
{{- $job := index . 1 -}}
{{- if eq $job "compact" }}
- compact
{{- else }}
- run
- {{ $values.captures | quote }}
{{- end }}
{{- if eq $job "live" }}
- --live
- --interval
- {{ $values.live.interval | quote }}
{{- end }}
- --tables
- {{ $values.tables | quote }}
{{- end }}

{{/* A SparkApplication's spec. */}}
{{- define "amqproxy.pipeline.application" -}}
{{- $values := index . 0 -}}
{{- $job := index . 1 -}}
type: Python
pythonVersion: "3"
mode: cluster
image: {{ $values.image | quote }}
imagePullPolicy: {{ $values.imagePullPolicy }}
mainApplicationFile: local:///opt/amqproxy/pipeline.py
sparkVersion: 4.3.0
arguments:
  {{- include "amqproxy.pipeline.arguments" . | trim | nindent 2 }}
restartPolicy:
  {{- if eq $job "live" }}
  type: Always
  {{- else }}
  type: OnFailure
  onFailureRetries: 2
  onSubmissionFailureRetries: 2
  {{- end }}
  onFailureRetryInterval: 30
  onSubmissionFailureRetryInterval: 30
sparkConf:
  spark.sql.session.timeZone: UTC
  {{- range $name, $value := $values.sparkConf }}
  {{ $name | quote }}: {{ $value | quote }}
  {{- end }}
{{- if $values.volumes }}
volumes:
  {{- toYaml $values.volumes | nindent 2 }}
{{- end }}
driver:
  cores: {{ $values.driver.cores }}
  memory: {{ $values.driver.memory | quote }}
  serviceAccount: {{ $values.serviceAccount.name | quote }}
  {{- include "amqproxy.pipeline.securityContext" . | nindent 2 }}
  {{- include "amqproxy.pipeline.env" $values | trim | nindent 2 }}
executor:
  instances: {{ $values.executor.instances }}
  cores: {{ $values.executor.cores }}
  memory: {{ $values.executor.memory | quote }}
  {{- include "amqproxy.pipeline.securityContext" . | nindent 2 }}
  {{- include "amqproxy.pipeline.env" $values | trim | nindent 2 }}
{{- end }}

{{/* A pod that runs spark-submit by itself. */}}
{{- define "amqproxy.pipeline.pod" -}}
{{- $values := index . 0 -}}
{{- $job := index . 1 -}}
restartPolicy: {{ if eq $job "live" }}Always{{ else }}OnFailure{{ end }}
serviceAccountName: {{ $values.serviceAccount.name | quote }}
containers:
  - name: spark
    image: {{ $values.image | quote }}
    imagePullPolicy: {{ $values.imagePullPolicy }}
    args:
      - spark-submit
      - --master
      - {{ $values.master | quote }}
      - --driver-memory
      - {{ $values.driver.memory | quote }}
      {{- range $name, $value := $values.sparkConf }}
      - --conf
      - {{ printf "%s=%v" $name $value | quote }}
      {{- end }}
      - /opt/amqproxy/pipeline.py
      {{- include "amqproxy.pipeline.arguments" . | trim | nindent 6 }}
    {{- include "amqproxy.pipeline.securityContext" . | nindent 4 }}
    {{- include "amqproxy.pipeline.env" $values | trim | nindent 4 }}
{{- if $values.volumes }}
volumes:
  {{- toYaml $values.volumes | nindent 2 }}
{{- end }}
{{- end }}
