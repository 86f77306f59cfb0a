<?php
[, $port, $authority] = $argv;
$methods = ["1.2" => STREAM_CRYPTO_METHOD_TLSv1_2_CLIENT, "1.3" => STREAM_CRYPTO_METHOD_TLSv1_3_CLIENT];
for ($place = 3; $place < $argc; $place += 2) {
    $options = [
        "cafile" => $authority,
        "local_cert" => $argv[$place + 1],
        "local_pk" => $argv[$place + 1],
        "peer_name" => "localhost",
        "crypto_method" => $methods[$argv[$place]],
        "ciphers" => "DEFAULT:@SECLEVEL=0",
        "security_level" => 0,
    ];
    $context = stream_context_create(["ssl" => $options]);
    $client = @stream_socket_client("tls://127.0.0.1:$port", $code, $text, 30, STREAM_CLIENT_CONNECT, $context);
    $received = $client ? @fread($client, 1) : "";
    echo $received ? "ok" : str_replace("\n", " ", error_get_last()["message"] ?? "closed"), "\n";
    error_clear_last();
}
