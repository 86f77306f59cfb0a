#!/usr/bin/env escript
%% RabbitMQ's own codec, for test_specification: reads requests, one a line, and answers each with one line.
%%
%%   methods                          every method: class,id,name,content,synchronous,field.field… by spaces
%%   method CLASS ID HEX              arguments, decoded, and encoded again: VALUES HEX
%%   properties HEX                   a property list, likewise
%%   table HEX                        the entries of a table, likewise
%%
%% Values are rendered as {type,value} terms without spaces, octets in hexadecimal.

-mode(compile).
-define(FRAMING, rabbit_framing_amqp_0_9_1).

main([Ebin]) ->
    true = code:add_patha(Ebin),
    loop(io:get_line("")).

loop(eof) -> ok;
loop(Line) ->
    Words = string:lexemes(Line, " \n"),
    Answer = try answer(Words) catch _:Reason -> io_lib:format("error ~0p", [Reason]) end,
    io:format("~s~n", [Answer]),
    loop(io:get_line("")).

answer(["methods"]) ->
    Ids = [{Class, Id} || Class <- lists:seq(0, 255), Id <- lists:seq(0, 255)],
    lists:join(" ", lists:filtermap(fun describe/1, Ids));
answer(["method", Class, Id, Hex]) ->
    Name = ?FRAMING:lookup_method_name({list_to_integer(Class), list_to_integer(Id)}),
    Record = ?FRAMING:decode_method_fields(Name, octets(Hex)),
    [_ | Values] = tuple_to_list(Record),
    [render(Values), " ", hex(?FRAMING:encode_method_fields(Record))];
answer(["properties", Hex]) ->
    Record = ?FRAMING:decode_properties(60, octets(Hex)),
    [_ | Values] = tuple_to_list(Record),
    [render(Values), " ", hex(?FRAMING:encode_properties(Record))];
answer(["table", Hex]) ->
    Table = rabbit_binary_parser:parse_table(octets(Hex)),
    Again = iolist_to_binary(rabbit_binary_generator:generate_table(Table)),
    [render(Table), " ", hex(Again)].

describe(Ids = {Class, Id}) ->
    try ?FRAMING:lookup_method_name(Ids) of
        Name ->
            Fields = lists:join(".", [atom_to_list(Field) || Field <- ?FRAMING:method_fieldnames(Name)]),
            HasContent = ?FRAMING:method_has_content(Name),
            IsSynchronous = ?FRAMING:is_method_synchronous(?FRAMING:method_record(Name)),
            {true, io_lib:format("~b,~b,~s,~s,~s,~s", [Class, Id, Name, HasContent, IsSynchronous, Fields])}
    catch _:_ -> false
    end.

render(Values) when is_list(Values) -> ["[", lists:join(",", [render(Value) || Value <- Values]), "]"];
render(Value) when is_binary(Value) -> ["<", hex(Value), ">"];
render(Value) when is_tuple(Value) -> ["{", lists:join(",", [render(Each) || Each <- tuple_to_list(Value)]), "}"];
render(Value) -> io_lib:format("~0p", [Value]).

octets("-") -> <<>>;
octets(Hex) -> binary:decode_hex(list_to_binary(Hex)).

hex(<<>>) -> "-";
hex(Octets) -> string:lowercase(binary_to_list(binary:encode_hex(Octets))).
