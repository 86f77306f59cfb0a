#!/usr/bin/env escript
main([Port, Authority | Rest]) ->
    {ok, _} = application:ensure_all_started(ssl),
    attempts(list_to_integer(Port), Authority, Rest).

attempts(_, _, []) -> ok;
attempts(Port, Authority, [Version, File | Rest]) ->
    io:format("~s~n", [attempt(Port, Authority, version(Version), File)]),
    attempts(Port, Authority, Rest).

version("1.2") -> 'tlsv1.2';
version("1.3") -> 'tlsv1.3'.

attempt(Port, Authority, Version, File) ->
    Options = [
        {verify, verify_peer}, {cacertfile, Authority}, {certfile, File}, {keyfile, File}, {versions, [Version]},
        {server_name_indication, "localhost"}, {active, false}, {log_level, none}
    ],
    case ssl:connect({127, 0, 0, 1}, Port, Options, 30000) of
        {ok, Socket} ->
            case ssl:recv(Socket, 1, 30000) of
                {ok, _} -> "ok";
                {error, Reason} -> words(Reason)
            end;
        {error, Reason} -> words(Reason)
    end.

words(Reason) -> lists:flatten(io_lib:format("~0p", [Reason])).
