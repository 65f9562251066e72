{{- define "proxyd.labels" -}}
{app.kubernetes.io/name: proxyd, app.kubernetes.io/component: {{ .role }}}
{{- end }}

{{- /* The settings that a role reads from files of Secrets, by the value that names the Secret. */}}
{{- define "proxyd.files" -}}
{{- $files := dict "proxy" "proxy" "browser" "browser" }}
{{- if ne .role "prober" }}{{ $_ := set $files "mail" "smtp_password" }}{{ end }}
{{- if has .role (list "planner" "single") }}{{ $_ := set $files "oidc" "oidc_secret" }}{{ end }}
{{- range $name, $_ := $files }}{{ if not (get $.root.Values.secrets $name) }}{{ $_ := unset $files $name }}{{ end }}{{ end }}
{{- toJson $files }}
{{- end }}

{{- define "proxyd.pods" -}}
{{- $files := include "proxyd.files" . | fromJson -}}
selector:
  matchLabels: {{ include "proxyd.labels" . }}
template:
  metadata:
    labels: {{ include "proxyd.labels" . }}
    annotations:  # a change of settings restarts the pods
      checksum/settings: {{ with .root.Values }}{{ list .settings .ingress.host .browser.enabled | toJson | sha256sum }}{{ end }}
  spec:
    serviceAccountName: proxyd
    automountServiceAccountToken: false
    enableServiceLinks: false  # their PROXYD_... variables would be taken for settings
    terminationGracePeriodSeconds: 60
    {{- with .root.Values.pullSecrets }}
    imagePullSecrets: {{ toJson . }}
    {{- end }}
    securityContext:
      runAsNonRoot: true
      runAsUser: 10001
      runAsGroup: 10001
      fsGroup: 10001
      seccompProfile: {type: RuntimeDefault}
    topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector:
          matchLabels: {{ include "proxyd.labels" . }}
    containers:
      - name: proxyd
        image: "{{ .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}"
        args: [serve]
        env:
          - {name: PROXYD_ROLE, value: {{ eq .role "single" | ternary "all" .role }}}
          {{- if eq .role "prober" }}
          - {name: PROXYD_DATABASE_FILE, value: ""}  # a prober needs no database
          {{- end }}
          {{- range $name, $setting := $files }}
          - {name: PROXYD_{{ upper $setting }}_FILE, value: /run/secrets/{{ $name }}/{{ $setting }}}
          {{- end }}
        envFrom:
          - configMapRef: {name: proxyd-settings}
        ports:
          - {name: http, containerPort: 8080}
        startupProbe:
          httpGet: {path: /healthz, port: http}
          periodSeconds: 5
          failureThreshold: 120
        livenessProbe:
          httpGet: {path: /healthz, port: http}
          periodSeconds: 10
          timeoutSeconds: 5
          failureThreshold: 6
        readinessProbe:
          httpGet: {path: /readyz, port: http}
          periodSeconds: 5
          timeoutSeconds: 5
          failureThreshold: 2
        resources: {{ toJson (index .root.Values .role).resources }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
        volumeMounts:
          - {name: state, mountPath: /var/lib/proxyd}
          {{- if eq .role "single" }}
          - {name: backups, mountPath: /var/lib/proxyd/backups}
          {{- end }}
          - {name: tmp, mountPath: /tmp}
          {{- if ne .role "single" }}
          - {name: secrets, mountPath: /run/secrets/proxyd, readOnly: true}
          {{- end }}
          - {name: hooks, mountPath: /run/secrets/hooks, readOnly: true}
          {{- range $name, $_ := $files }}
          - {name: {{ $name }}, mountPath: /run/secrets/{{ $name }}, readOnly: true}
          {{- end }}
          {{- if has .role (list "planner" "single") }}
          - {name: profiles, mountPath: /etc/proxyd/profiles, readOnly: true}
          {{- end }}
    volumes:
      {{- if ne .role "single" }}
      - name: state  # the socket alone: what is to be kept is in PostgreSQL
        emptyDir: {sizeLimit: 16Mi}
      {{- end }}
      - name: tmp
        emptyDir: {sizeLimit: 256Mi}
      {{- if ne .role "single" }}
      - name: secrets
        secret:
          secretName: {{ .root.Values.secrets.stores | quote }}
          defaultMode: 0440
          items:
            {{- if ne .role "prober" }}
            - {key: database_url, path: database_url}
            {{- end }}
            - {key: nats_url_{{ .role }}, path: nats_url}
      {{- end }}
      - name: hooks
        secret: {secretName: {{ .root.Values.secrets.hooks | quote }}, defaultMode: 0440{{ if eq .role "single" }}, optional: true{{ end }}}
      {{- range $name, $_ := $files }}
      - name: {{ $name }}
        secret: {secretName: {{ get $.root.Values.secrets $name | quote }}, defaultMode: 0440}
      {{- end }}
      {{- if has .role (list "planner" "single") }}
      - name: profiles
        configMap: {name: proxyd-profiles}
      {{- end }}
{{- end }}
