"""The tables of the store's database."""

# Each row of `lane` is a `MessageLog`. It and its column `octets` keep their names, which earlier files have.
SCHEMA = """
create table definition(key blob primary key, value blob not null) without rowid;
create table lane(
  number integer primary key, kind text not null, vhost blob not null, name blob not null, priority integer not null,
  messages integer not null, octets integer not null, last integer not null, delivered integer not null
);
create table entry(id integer primary key, size integer not null, expires_at real, body integer, content blob);
create index shared on entry(body) where body is not null;
create table body(number integer primary key, content blob not null);
create table delivery_count(id integer primary key, count integer not null, turn integer not null default 0);
"""
